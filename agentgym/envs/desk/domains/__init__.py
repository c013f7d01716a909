"""The desk's domains by name, one file per domain."""

from agentgym.envs.desk.domain import Domain
from agentgym.envs.desk.domains.airline import Airline
from agentgym.envs.desk.domains.bank import Bank
from agentgym.envs.desk.domains.clinic import Clinic
from agentgym.envs.desk.domains.hotel import Hotel
from agentgym.envs.desk.domains.insurance import Insurance
from agentgym.envs.desk.domains.library import Library
from agentgym.envs.desk.domains.retail import Retail
from agentgym.envs.desk.domains.telecom import Telecom

DOMAINS: dict[str, type[Domain]] = {
    "retail": Retail,
    "airline": Airline,
    "telecom": Telecom,
    "bank": Bank,
    "hotel": Hotel,
    "clinic": Clinic,
    "library": Library,
    "insurance": Insurance,
}
