"""Ground truth, rankings and per-query metrics; numpy only."""
