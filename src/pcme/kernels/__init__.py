"""The numerics under the scores and losses."""
