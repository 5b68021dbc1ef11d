from pcme import data as data
from pcme import scores as scores
from pcme.data.dataset import CaptionDataset as CaptionDataset
from pcme.embedding import Gaussian as Gaussian
from pcme.embedding import Points as Points
from pcme.errors import PcmeError as PcmeError
from pcme.evaluation import evaluate as evaluate
from pcme.index import Hits as Hits
from pcme.index import SearchIndex as SearchIndex
from pcme.model import Model as Model
from pcme.model import load as load
from pcme.recipes.schema import Recipe as Recipe
from pcme.retrieval.matches import Matches as Matches
from pcme.training import train as train
from pcme.uncertainty import Confidence as Confidence
from pcme.uncertainty.calibrate import calibrate as calibrate

__version__: str
