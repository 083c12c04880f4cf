"""A page from a template: every value escaped twice over, for HTML and for what a reader's eye could be fooled by.

Pages hold no script, and their content security policy allows none, no request and no frame: a patch or a file name
that slipped through the escaping could still do nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gagar_cli.core.text import escape_untrusted

if TYPE_CHECKING:
    from jinja2 import Environment

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-src 'none'"
)


def render_page(template: str, values: Mapping[str, Any]) -> str:
    """A template of this package with its values, as a whole HTML document."""
    return _environment().get_template(template).render(policy=CONTENT_SECURITY_POLICY, **values)


def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("gagar_cli.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_safe,
    )
    environment.filters["percent"] = lambda value: "" if value is None else f"{100 * value:.1f}%"
    environment.filters["thousands"] = lambda value: f"{value:,}"
    return environment


def _safe(value: object) -> object:
    # Markup is text that this package made and escaped itself.
    return escape_untrusted(value) if type(value) is str else value
