"""Privacy at risk (Dandekar, Basu and Bressan, PoPETs 2021): `model_*` and `*_as_published` as printed, the rest as it is.

See `hpcdp.notions.at_risk`, and for studies of sampled sensitivities `hpcdp risk`.
"""

from hpcdp.notions.at_risk import RHO as RHO
from hpcdp.notions.at_risk import Optimum as Optimum
from hpcdp.notions.at_risk import both_as_published as both_as_published
from hpcdp.notions.at_risk import certified_cover as certified_cover
from hpcdp.notions.at_risk import certified_within as certified_within
from hpcdp.notions.at_risk import composed_as_published as composed_as_published
from hpcdp.notions.at_risk import cover_as_published as cover_as_published
from hpcdp.notions.at_risk import exact_confidence as exact_confidence
from hpcdp.notions.at_risk import exact_confidence_gaussian as exact_confidence_gaussian
from hpcdp.notions.at_risk import model_confidence as model_confidence
from hpcdp.notions.at_risk import model_epsilon as model_epsilon
from hpcdp.notions.at_risk import model_epsilon0 as model_epsilon0
from hpcdp.notions.at_risk import optimum as optimum
from hpcdp.notions.at_risk import order_statistic as order_statistic
from hpcdp.notions.at_risk import overlap as overlap
from hpcdp.notions.at_risk import samples_as_published as samples_as_published
