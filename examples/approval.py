"""Pays an invoice if somebody approves it in time, and asks for a receipt the day after.

The deadline stands with the question in the log: `kill -9` and a restart do not move it, and a
"yes" that comes later is refused. While it waits for an answer or sleeps, the task costs a row in
the store and no memory.
"""

import os
from datetime import timedelta
from pathlib import Path

from accord import Agent, Context

agent = Agent("Accounts payable", description="Pays invoices that somebody approves in time.")

PAID = Path(os.environ.get("PAID", "paid.txt"))  # the world outside: a bank
WITHIN = timedelta(seconds=float(os.environ.get("WITHIN_S", "172800")))  # two days
RECEIPT_AFTER = timedelta(seconds=float(os.environ.get("RECEIPT_AFTER_S", "86400")))


@agent.skill(durable=True, tags=["finance"], examples=["Invoice 17: 4,000 EUR"])
async def approve(invoice: str, ctx: Context) -> str:
    """Have an invoice approved, and pay it."""
    if not await ctx.ask(f"Pay {invoice}?", bool, within=WITHIN, default=False):
        return f"not paid: {invoice}"
    await ctx.step(pay, invoice, ctx)
    ctx.status("paid; the bank has the receipt tomorrow")
    await ctx.sleep(RECEIPT_AFTER)
    return await ctx.step(receipt, invoice)


def pay(invoice: str, ctx: Context) -> None:
    """Pay, once: the bank knows a key it has seen."""
    payment = f"{ctx.step_key} {invoice}"
    if payment not in (PAID.read_text().splitlines() if PAID.exists() else []):
        with PAID.open("a") as file:
            file.write(f"{payment}\n")


def receipt(invoice: str) -> str:
    return f"paid: {invoice}, receipt {len(PAID.read_text().splitlines())}"


if __name__ == "__main__":
    agent.run()
