"""The agent a user makes: functions, and two ways to serve them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from .engine.skills import Agent as DeclaredAgent
from .engine.skills import definition_of
from .model import AgentCard
from .options import AppOptions, RunOptions, ServeOptions, takes

if TYPE_CHECKING:
    import socket

    from .app import App
    from .console import Console
    from .relay import Connect
    from .server.process import WorkerProcess

__all__ = ["SHARED_STORE", "Agent"]

MAX_WORKERS = 64
SHARED_STORE = "sqlite:///.accord/agents.db"  # of several agents


class Agent(DeclaredAgent):
    """Make an agent out of functions, and serve it with `run` or as an ASGI app with `app`.

        agent = Agent("Trips", description="Plans short trips.")

        @agent.skill
        async def plan(city: str) -> str: return f"Two days in {city}."

        agent.run()

    The keywords are the fields of the agent card. Skills, interfaces and capabilities are filled in
    from what the agent does.

    Args:
        name: The name that people see.
        description: What the agent is for; by default its name.
        version: The version of your agent.
        provider: The organisation that runs it.
        documentation_url: The address of its documentation.
        icon_url: The address of its icon.
        input_modes: The media types that its skills accept, unless a skill says otherwise; by
          default text and JSON. Parts of other types are refused if you give this.
        output_modes: The media types that its skills return; by default text and JSON.
        extensions: Protocol extensions that the agent supports, besides Accord's own.
        strict_modes: Whether to refuse parts whose media type is not an input mode. By default only
          modes that you gave are enforced. `True` also enforces the default (text and JSON),
          `False` enforces none.
        auth: How callers authenticate: `ApiKeys()`, `OIDC(...)` and others of `accord.auth`,
          combined with `|` and `&`, or a function decorated with `accord.auth.scheme`. Without it,
          everybody may call who can reach the agent.
        card: Who may read the agent card: `"public"` for everybody, `"authenticated"` for callers
          who may use the agent.
        headers: Names of request headers to store with a task; a skill reads them in `ctx.headers`.
          Headers that carry credentials are not allowed.
    """

    @classmethod
    def proxy(
        cls,
        agent: str | AgentCard,
        *,
        name: str = "",
        auth: Any = None,
        credentials: Any = None,
        connect: "Connect | None" = None,
        lost_after_s: float = 3600.0,
        silent_s: float = 10.0,
        stale_after_s: float = 60.0,
    ) -> "Agent":
        """Return an agent that forwards everything to another agent, of any version and binding.

        agent = Agent.proxy("https://old.example.com")
        agent.run()

        Its tasks follow the tasks of the other agent event by event, under their own ids, and are
        stored here. So streams can be resumed, sends repeated under a key, and tasks listed and
        pushed; callers don't see each other's tasks, and a crash loses nothing. Its card is the
        other agent's, with the addresses and capabilities of this one.

        Args:
            agent: The other agent's address, or its card.
            name: The name of this agent; by default the other agent's name.
            auth: How callers authenticate, as for any agent. Their credentials are never forwarded.
            credentials: The credentials for the other agent, as `auth` of `accord.connect`.
            connect: Gives a client for each task instead, from a `accord.relay.RequestContext`:
              who calls, and which of several equal agents has the task. Needs the card as `agent`.
            lost_after_s: Fail a task if its agent was away for this long.
            silent_s: Answer with a submitted task if the other agent has not answered for this
              long.
            stale_after_s: Mark a task as stale (`via.stale` in its metadata) if its agent was away
              for this long.

        Raises:
            AgentFault: There is no agent at this address.
        """
        from .relay import (  # brings the client
            Relay,
            SharedClient,
            fetch_card,
            relayed_extensions,
            relayed_skills,
        )

        card = agent if isinstance(agent, AgentCard) else fetch_card(agent, auth=credentials)
        shared = SharedClient(agent, auth=credentials)
        relay = Relay(
            connect or shared,
            lost_after_s=lost_after_s,
            silent_s=silent_s,
            stale_after_s=stale_after_s,
        )
        made = cls(
            name or card.name,
            description=card.description,
            version=card.version,
            provider=card.provider,
            documentation_url=card.documentation_url,
            icon_url=card.icon_url,
            input_modes=card.default_input_modes,
            output_modes=card.default_output_modes,
            extensions=relayed_extensions(card),
            strict_modes=False,  # the agent behind it decides
            auth=auth,
        )
        definition = definition_of(made)
        definition.skills = relayed_skills(card, relay)
        definition.takes_any_skill = True
        definition.on_close.append(shared.close)
        return made

    @takes(AppOptions)
    def app(self, options: AppOptions) -> "App":
        """Return the agent as an ASGI app, to be served by any ASGI server or mounted in Starlette
        or FastAPI.
        """
        from .app import App  # every room of the house: an agent that is only looked at needs none

        return App(definition_of(self), options)

    @classmethod
    def wrap(
        cls,
        obj: Any,
        name: str = "",
        description: str = "",
        options: Any = None,
        **card: Any,
    ) -> Self:
        """Return an agent that runs an object of another framework: an agent of LangGraph,
        LangChain, pydantic-ai, OpenAI Agents, ADK, Agent Framework, LlamaIndex, CrewAI, Strands or
        AG2, an AgentExecutor of a2a-sdk, or an MCP server (each tool becomes a skill).

        Tokens are streamed, tool calls are reported as status, and the history is kept per
        conversation (`ctx.state`). Where the framework stops to ask a person, the agent asks its
        client and continues with the answer, also after a restart.

        Args:
            obj: The framework's agent.
            name: The name of the agent; by default the object's name.
            description: The description of the agent and its skill. Instructions of the object are
              never shown.
            options: Keyword arguments for the framework's run call (`deps`, `context`, `config`): a
              dict, or a function that gets the Context of each turn and returns a dict.
            **card: As for `Agent`, for example `auth=`.

        Raises:
            TypeError: The object is not from a framework that Accord knows.
        """
        # Frameworks are wrapped in agents, so that room stands on this one.
        wrap = import_module(".integrations", __package__).wrap
        made: Self = wrap(cls, obj, name, description, options, **card)
        return made

    @property
    def default_store(self) -> str:
        """The store that `run` and `accord serve` use by default, as a URL."""
        return f"sqlite:///.accord/{self.slug}.db"

    @takes(RunOptions)
    def run(self, options: RunOptions) -> None:
        """Serve the agent over HTTP, and over gRPC if you give a port, until Ctrl-C or SIGTERM.

        Then it returns. Functions that have not ended 5 s after they were cancelled are named in
        the log and abandoned.

        Raises:
            ValueError: The address can be reached from other machines and callers are not
              authenticated; or a setting is wrong.
            RuntimeError: An event loop is already running. Use `await agent.serve(...)` there.
        """
        from .server.process import is_in_loop, set_up_log

        if is_in_loop():
            raise RuntimeError(
                "agent.run() starts an event loop of its own, and one is running here; write "
                "await agent.serve(...), with the same keywords"
            )
        self._check_reach(options)
        workers = options.workers
        if not 1 <= workers <= MAX_WORKERS:
            raise ValueError(f"workers is {workers}; give a number from 1 to {MAX_WORKERS}")
        set_up_log(options.log_level, options.log_format)
        app = self._served_app(options)  # here too with several workers: what is wrong is said once
        if workers == 1:
            self._run_app(app, options)
        else:
            app.check_shared(workers)
            self._run_workers(app, options)

    def _served_app(self, options: ServeOptions) -> "App":
        """Make the app that `run` and `serve` serve."""
        store = options.store or (SHARED_STORE if options.beside else self.default_store)
        grpc_host = options.grpc_host or options.host
        from .app import App

        return App(definition_of(self), replace(options, store=store, grpc_host=grpc_host))

    def _run_app(
        self,
        app: "App",
        options: RunOptions,
        worker: "WorkerProcess | None" = None,
        sockets: "Sequence[socket.socket]" = (),
    ) -> None:
        """Serve an app in this process, which may be one of several workers."""
        from .server.process import serve

        for part in options.parts:
            app.add_part(part)
        if worker is None:
            started: Callable[[str], None] = self._starting(app, options)
        else:
            if self._has_console(app, options):
                _attach_console(app, is_one_of_several=True)

            def started(address: str) -> None:
                app.reached_at(options.url or address)

        serve(
            app,
            host=options.host,
            port=options.port,
            limits=app.limits,
            on_start=started,
            tls=app.server_tls,
            grace_s=options.grace_s,
            sockets=list(sockets),
            worker=worker,
        )

    def _run_workers(self, app: "App", options: RunOptions) -> None:
        """Serve in several processes. `app` is this one's, which serves nothing."""
        from .server.process import bind, run_workers, url_of

        sockets, grpc_sockets = bind(options.host, options.port), list["socket.socket"]()
        if options.grpc_port is not None:
            grpc_sockets = bind(options.grpc_host or options.host, options.grpc_port)

        def work(worker: "WorkerProcess") -> None:
            own = self._served_app(options)
            if own.metrics is not None:
                own.metrics.move_port(worker.number)  # each process has its own
            if grpc_sockets:
                own.share_grpc(grpc_sockets)
            self._run_app(own, options, worker, sockets)

        def started() -> None:
            address = url_of(sockets, is_secure=options.tls is not None)
            self._announce(address, options, len(app.agents))
            if self._has_console(app, options):
                _show_link(_new_link(app, options.url or address), options.console)

        try:
            code = run_workers(options.workers, work, grace_s=options.grace_s, on_start=started)
        finally:
            for one in (*sockets, *grpc_sockets):
                one.close()
        if code:
            raise SystemExit(code)

    @takes(ServeOptions)
    async def serve(self, options: ServeOptions) -> None:
        """Serve the agent in the running event loop, beside your own tasks: `await
        agent.serve(port=9000)`.

        It ends when it is cancelled. On SIGTERM, if nobody else handles that, running work gets
        `grace_s` to finish, and it returns. The log is the program's own.

        Raises:
            ValueError: For the same reasons as `run`.
            RuntimeError: The port is in use, or the store can't be opened.
        """
        from .server.process import serve_here

        self._check_reach(options)
        app = self._served_app(options)
        await serve_here(
            app,
            host=options.host,
            port=options.port,
            limits=app.limits,
            on_start=self._starting(app, options),
            tls=app.server_tls,
            grace_s=options.grace_s,
        )

    def _check_reach(self, options: ServeOptions) -> None:
        """Raise ValueError if anyone could call who was not meant to."""
        from .server.process import is_local

        host, url, proxies = options.host, options.url, options.trusted_proxies
        beside, no_auth, grace_s = options.beside, options.no_auth, options.grace_s
        if not 0 <= grace_s < math.inf:
            raise ValueError(f"grace_s is {grace_s}; give seconds, 0 or more")
        agents = (self, *beside)
        is_open = [agent for agent in agents if agent.auth is None]
        if is_open and not no_auth and not is_local(host, url, proxies):
            of_whom = f" for agent {is_open[0].name!r}" if beside else ""
            where = host if not is_local(host, None, ()) else url or f"{host} by a trusted proxy"
            raise ValueError(
                f"no authentication is configured{of_whom}, and {where} can be reached from other "
                "machines; give the agent auth=, as in Agent(..., auth=ApiKeys()), serve 127.0.0.1 "
                "only, or let anyone call: --no-auth, no_auth=True"
            )
        if no_auth and not is_open:
            raise ValueError(
                f"agent {self.name!r} declares auth=, which --no-auth would not switch off; leave "
                "one of them out"
            )

    def _starting(self, app: "App", options: ServeOptions) -> Callable[[str], None]:
        """Return what to do once the app is served: print its address, and that of its console."""
        page = _attach_console(app) if self._has_console(app, options) else None

        def started(address: str) -> None:
            app.reached_at(options.url or address)
            self._announce(address, options, len(app.agents))
            if page is not None:
                _show_link(page.link(options.url or address), options.console)

        return started

    def _has_console(self, app: "App", options: ServeOptions) -> bool:
        from .server.process import is_local

        # A caller with `on_start` prints the address itself, and gets the link by `console`.
        announces = options.console is True and options.on_start is None
        if not announces and not callable(options.console):
            return False
        served = [one.agent for one in app.agents.values()] or [definition_of(self)]
        if not is_local(options.host, options.url, options.trusted_proxies) and any(
            agent.auth is None for agent in served
        ):
            return False
        from .console import is_built  # the page, which most apps have no need of

        return is_built()

    def _announce(self, address: str, options: ServeOptions, agents: int) -> None:
        if options.on_start is not None:
            options.on_start(address)
        else:
            what = f"{agents} agents are" if agents else f"{self.name} is"
            print(f"{what} served at {options.url or address}   (Ctrl-C stops it)", flush=True)


def _attach_console(app: "App", *, is_one_of_several: bool = False) -> "Console":
    """Serve the console too. Workers that share a port have no Live: it would show the requests of
    one worker only.
    """
    from .console import Console  # the page, which most apps have no need of

    page = Console(app, has_exchanges=not is_one_of_several, makes_link=not is_one_of_several)
    page.attach(app)
    return page


def _new_link(app: "App", address: str) -> str:
    """Make a link for an app that workers serve: they find it in the store."""
    import asyncio

    from .console import BrowserSessions, link_of

    sessions = BrowserSessions(app.engine.tasks.store.logins)
    return link_of(address, asyncio.run(sessions.first_link()))


def _show_link(link: str, console: "bool | Callable[[str], None]") -> None:
    """Pass the link of the console to the callback, or print it. There is none if it could not be
    stored.
    """
    if not link:
        return
    if callable(console):
        console(link)
    else:
        print(f"  console  {link}   (works once)", flush=True)
