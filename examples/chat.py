"""A chat agent with history: `ctx.state` holds what its model was told, turn by turn.

`answer` stands for a model: it gets the whole conversation and streams its reply.
"""

from accord import Agent, Context

agent = Agent("Chat", description="Remembers the conversation.")


@agent.skill
async def chat(text: str, ctx: Context):
    """Talk."""
    history = ctx.state.setdefault("history", [])
    history.append({"role": "user", "content": text})
    said = ""
    async for word in answer(history):
        said += word
        yield word
    history.append({"role": "assistant", "content": said})


async def answer(history: list[dict[str, str]]):
    earlier = [turn["content"] for turn in history if turn["role"] == "user"][:-1]
    yield f"You said: {history[-1]['content']}."
    if earlier:
        yield f" Before that: {', '.join(earlier)}."


if __name__ == "__main__":
    agent.run()
