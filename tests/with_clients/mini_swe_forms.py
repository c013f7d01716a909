"""How the real mini-swe-agent shows outputs and reads replies: a line of JSON for each on standard input."""

import json
import os
import sys

os.environ["MSWEA_SILENT_STARTUP"] = "1"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import yaml
from answers import tell
from jinja2 import StrictUndefined, Template
from minisweagent import package_dir
from minisweagent.exceptions import FormatError
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModelConfig
from minisweagent.models.utils.actions_text import parse_regex_actions

config = yaml.safe_load((package_dir / "config" / "mini_textbased.yaml").read_text())
template = Template(config["model"]["observation_template"], undefined=StrictUndefined)
pattern = LitellmTextbasedModelConfig.model_fields["action_regex"].default

for line in sys.stdin:
    request = json.loads(line)
    if "reply" in request:
        try:
            found = parse_regex_actions(request["reply"], action_regex=pattern, format_error_template="{{error}}")
            tell(found[0]["command"])
        except FormatError:
            tell(None)
    else:
        tell(template.render(output=request))
tell([config["agent"]["system_template"], config["agent"]["instance_template"]])
