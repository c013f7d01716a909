"""A small text template engine: values, filters, conditions and loops.

>>> render("Hello {{ name | title }}!", name="ada")
'Hello Ada!'
"""

from inkwell.errors import TemplateError
from inkwell.template import Template, render

__all__ = ["Template", "TemplateError", "render"]
