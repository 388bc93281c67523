"""How far the work is, in numbers: `ctx.progress`. On a terminal a bar is shown while you wait.

accord serve examples/count_rows.py
accord send http://127.0.0.1:8000 40
"""

import asyncio

from accord import Agent, Context

agent = Agent("Row counter", description="Reads rows, slowly, and says how far it is.")


@agent.skill
async def read(rows: int, ctx: Context) -> str:
    """Read so many rows."""
    for row in range(rows):
        await asyncio.sleep(0.1)
        ctx.progress(row + 1, rows, "rows read")
    return f"All {rows} rows are read."
