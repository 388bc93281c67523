"""Several skills with typed input: checks invoices sent as data or JSON text, and reads ones sent
as files.
"""

from dataclasses import dataclass

from accord import Agent, Artifact, Context, File, Message, Part, Reply

agent = Agent("Invoice desk", description="Checks and reads invoices.", version="1.2.0")


@dataclass
class Invoice:
    number: str
    net: float
    tax_rate: float = 0.19


@dataclass
class Checked:
    number: str
    gross: float


@agent.skill(tags=["finance"], examples=['{"number": "A-7", "net": 100}'])
async def check(invoice: Invoice, ctx: Context) -> Checked:
    """Add the tax. Negative amounts are declined."""
    if invoice.net < 0:
        ctx.reject("an invoice can't be negative; send a credit note to accounts")
    return Checked(invoice.number, round(invoice.net * (1 + invoice.tax_rate), 2))


@agent.skill(tags=["files"])
def read(file: File) -> Artifact:
    """Count the lines of an invoice sent as a text file."""
    lines = file.text.splitlines()
    return Artifact(
        artifact_id="lines",
        name=file.name,
        parts=[Part(text=f"{len(lines)} lines"), Part(data=lines)],
    )


@agent.skill(tags=["help"])
async def hours(text: str) -> Reply:
    """Say when the desk is open: a quick answer, no task kept."""
    return Reply("Monday to Friday, 9 to 17.")


@agent.route
def choose(message: Message) -> str | None:
    """Files are read, questions answered, everything else is an invoice to check."""
    if any(isinstance(part.raw, bytes) for part in message.parts):
        return "read"
    return "hours" if message.text.endswith("?") else None


if __name__ == "__main__":
    agent.run()
