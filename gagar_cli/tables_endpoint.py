"""What was found of an endpoint as a table."""

from typing import TYPE_CHECKING

from gagar_cli.tables import rows_table

if TYPE_CHECKING:
    from rich.table import Table

    from gagar_cli.grader.probing import EndpointReport


def endpoint_table(report: "EndpointReport") -> "Table":
    """What was looked at, and the protocol that grading would take."""
    rows = [(one.check, one.state, one.detail) for one in report.findings]
    rows.append(("protocol of grade", report.protocol or "none", ""))
    return rows_table(f"Endpoint, model {report.model}", ("what", "is", "because"), rows)
