"""The agent a user makes: functions, and two ways to serve them."""

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack

from .engine.skills import AgentBase
from .model import AgentCard, Limits

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from .app import App, AppPart
    from .console import Console
    from .engine.runs import Retention
    from .push import PushSettings
    from .relay import Connect
    from .server.transport import Tls
    from .store import Store

__all__ = ["SHARED_STORE", "Agent"]

MAX_WORKERS = 64
SHARED_STORE = "sqlite:///.accord/agents.db"  # of several agents


class AppOptions(TypedDict, total=False):
    """Keywords of `Agent.app` that `Agent.serve` passes on."""

    beside: "Sequence[Agent]"
    rpc: str
    rest: str
    limits: Limits | None
    versions: Sequence[str] | None
    grpc_port: int | None
    grpc_host: str
    tls: "Tls | None"
    retention: "Retention | None"
    key_file: "str | Path | None"
    allow_hosts: Sequence[str]
    sign_card: bool
    egress_proxy: str
    trusted_proxies: Sequence[str]
    cors_origins: Sequence[str]
    push: "bool | PushSettings"
    telemetry: bool | None
    metrics: int | str | None


class Agent(AgentBase):
    """An agent made of functions (`@agent.skill`), served by `run`, or as an ASGI app by `app`.

    Its keywords are the fields of the agent card: `description`, `version` (of the agent),
    `provider`, `documentation_url`, `icon_url`, `input_modes` and `output_modes` (media types),
    `extensions`. A part of a media type that is none of the given `input_modes` is refused.
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
        """Return an agent that passes everything on to another one, whatever version and binding
        that speaks.

        agent = Agent.proxy("https://old.example.com")
        agent.run()

        Its tasks follow those of the other agent event by event, under ids of their own, and are
        kept here: streams can be resumed, sends repeated under a key, tasks listed and pushed, and
        callers don't see each other's. After a crash it goes on. Its card is the other agent's,
        with our addresses and capabilities.

        Args:
            agent: The other agent's address, or its card.
            name: What this one is called; the other's name by default.
            auth: How callers show who they are, as for any agent. What they show is never passed
              on.
            credentials: What is shown to the other agent: `auth` of `accord.connect`.
            connect: Gives a client for each task instead, from an `accord.relay.Errand`: who calls,
              and which of several equal agents has the task. Needs the card as `agent`.
            lost_after_s: A task fails if its agent was away for so long.
            silent_s: A message that is not answered for so long gets a task that is submitted.
            stale_after_s: A task says in its metadata that its agent was away for so long
              (`via.stale`).

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
        made.skills = relayed_skills(card, relay)
        made.takes_any_skill = True
        made.on_close.append(shared.close)
        return made

    def app(
        self,
        *,
        beside: "Sequence[Agent]" = (),
        store: "str | Store" = "memory://",
        url: str | None = None,
        rpc: str = "/",
        rest: str = "/",
        limits: Limits | None = None,
        versions: Sequence[str] | None = None,
        grpc_port: int | None = None,
        grpc_host: str = "127.0.0.1",
        tls: "Tls | None" = None,
        retention: "Retention | None" = None,
        key_file: "str | Path | None" = None,
        allow_hosts: Sequence[str] = (),
        sign_card: bool = False,
        egress_proxy: str = "",
        trusted_proxies: Sequence[str] = (),
        cors_origins: Sequence[str] = (),
        push: "bool | PushSettings" = True,
        telemetry: bool | None = None,
        metrics: int | str | None = None,
    ) -> "App":
        """Return the agent as an ASGI app, to be served by any ASGI server or mounted in Starlette
        or FastAPI.

        Args:
            beside: Other agents to serve on the same engine and store. Each is then below a path
              made from its name, and `/` says which there are.
            store: Where tasks are kept: `memory://`, `sqlite:///file`, or a store.
            url: The address clients reach it at, for the agent card. Without it, the address they
              used.
            rpc: The path of the JSON-RPC binding.
            rest: The base path of the HTTP+JSON binding.
            limits: What one caller may ask for.
            versions: The versions of the protocol to answer, as `["1.0"]`; all of them by default.
            grpc_port: Where gRPC listens while the app is open; 0 for any free port. Needs
              `accord[grpc]`.
            grpc_host: The address it listens on.
            retention: How long tasks, their logs and idempotency keys are kept.
            key_file: Where the keys are that this server seals and signs with. By default in
              `ACCORD_KEY`, else in a file beside the SQLite database, made when first needed.
            allow_hosts: Hosts and networks that addresses of strangers (webhooks, keys of issuers)
              may lead to though they are private: for tests, and for networks of your own.
            sign_card: Sign the agent card with these keys, and publish the public ones at
              `/.well-known/jwks.json`.
            egress_proxy: An HTTP proxy that calls to addresses of strangers go through: webhooks,
              keys of issuers, links to files, places a card names. It decides by itself what is
              reached. Without it they are called directly, if they are public.
            trusted_proxies: Addresses and networks of proxies in front of this server, whose
              X-Forwarded-For or Forwarded says where a request comes from. Without them the
              address of a request is that of the connection.
            push: Whether push notifications are sent, or how.
            telemetry: Trace by OpenTelemetry (`accord[otel]`), in the whole process. By default if
              the environment says where traces go: `OTEL_EXPORTER_OTLP_ENDPOINT`.
            metrics: Serve metrics for Prometheus on this port (`accord[metrics]`), to this machine
              alone; or on `"HOST:PORT"`.
            tls: The certificate gRPC shows, and whose it asks for. HTTP's is a matter of the server
              this app runs in.
            cors_origins: Whose web pages may use the agent, as `https://app.example.com`.
        """
        from .app import (
            App,  # every room of the house: an agent that is only looked at needs none of them
        )

        app = App(
            self,
            beside=beside,
            store=store,
            url=url,
            rpc=rpc,
            rest=rest,
            limits=limits or Limits(),
            versions=versions,
            retention=retention,
            key_file=key_file,
            allow_hosts=allow_hosts,
            sign_card=sign_card,
            egress_proxy=egress_proxy,
            trusted_proxies=trusted_proxies,
            tls=tls,
            cors_origins=cors_origins,
            push=push,
            telemetry=telemetry,
            metrics=metrics,
        )
        if grpc_port is not None:
            app.listen(grpc_host, grpc_port)
        return app

    @classmethod
    def wrap(
        cls,
        obj: Any,
        name: str = "",
        description: str = "",
        options: Any = None,
        **card: Any,
    ) -> Self:
        """Return an agent made of an object of another framework: an agent of LangGraph, LangChain,
        pydantic-ai, OpenAI Agents, ADK, Agent Framework, LlamaIndex, CrewAI, Strands or AG2, an
        AgentExecutor of a2a-sdk, or an MCP server (each of its tools is a skill).

        Tokens are streamed, tools that are called are told as status, and the history is that of
        the conversation (`ctx.state`). Where the framework stops to ask a person, the agent asks
        its client, and goes on with the answer, in whatever process.

        Args:
            obj: The framework's agent.
            name: Of the agent; by default that of the object.
            description: Of the agent and its one skill. Instructions of the object are never shown.
            options: Called with the Context of each turn: returns keyword arguments for the
              framework's run call (`deps`, `context`, `config`). A dict does too.
            **card: As for `Agent`, for example `auth=`.

        Raises:
            TypeError: The object is of no framework that is known.
        """
        # Frameworks are wrapped in agents, so that room stands on this one.
        wrap = import_module(".integrations", __package__).wrap
        made: Self = wrap(cls, obj, name, description, options, **card)
        return made

    @property
    def default_store(self) -> str:
        """The file `run` and `accord serve` keep this agent's tasks in, unless told otherwise."""
        return f"sqlite:///.accord/{self.slug}.db"

    def run(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        beside: "Sequence[Agent]" = (),
        store: "str | Store | None" = None,
        url: str | None = None,
        limits: Limits | None = None,
        versions: Sequence[str] | None = None,
        log_level: str = "warning",
        log_format: str = "text",
        on_start: Callable[[str], None] | None = None,
        grpc_port: int | None = None,
        grpc_host: str | None = None,
        tls: "Tls | None" = None,
        grace_s: float = 20.0,
        retention: "Retention | None" = None,
        key_file: "str | Path | None" = None,
        allow_hosts: Sequence[str] = (),
        sign_card: bool = False,
        egress_proxy: str = "",
        trusted_proxies: Sequence[str] = (),
        push: "bool | PushSettings" = True,
        no_auth: bool = False,
        cors_origins: Sequence[str] = (),
        workers: int = 1,
        rpc: str = "/",
        rest: str = "/",
        console: "bool | Callable[[str], None]" = True,
        parts: "Sequence[AppPart]" = (),
        telemetry: bool | None = None,
        metrics: int | str | None = None,
    ) -> None:
        """Serve the agent until told to stop (Ctrl-C): over HTTP, and over gRPC if it is given a
        port.

        Then it returns. What has not ended 5 s after it was cancelled is named in the log and left
        behind.

        Args:
            host: The address to listen on. Other than loopback, as with a `url` that is not this
              machine's own, only if the agent has `auth`, or with `no_auth`.
            port: The port to listen on; 0 for any free one.
            beside: Other agents to serve on the same port, engine and store. Each is then below a
              path made from its name, and `/` says which there are.
            store: Where tasks are kept: `sqlite:///file`, `memory://` to forget them when the
              server stops, or a store. By default a file in `./.accord/` named after the agent,
              `agents.db` for several.
            url: The address clients reach it at, for the agent card. Without it, the address they
              used.
            rpc: The path of the JSON-RPC binding.
            rest: The base path of the HTTP+JSON binding.
            limits: What one caller may ask for.
            versions: The versions of the protocol to answer, as `["1.0"]`; all of them by default.
            log_level: Of `logging.getLogger("accord")`, if that has none: `critical`, `error`,
              `warning`, `info` or `debug`.
            log_format: `text`, or `json` for an object per line. Only if the program has not set up
              `logging` itself.
            on_start: Called with the address once it is served; by default that is printed.
            grpc_port: Serve gRPC too, on this port; 0 for any free one. Needs `accord[grpc]`.
            grpc_host: The address gRPC listens on; by default `host`.
            tls: The certificate HTTP and gRPC show, and whose they ask for.
            grace_s: What running work gets to finish on SIGTERM; on Ctrl-C it is interrupted at
              once.
            retention: How long tasks, their logs and idempotency keys are kept.
            key_file: Where the keys are that this server seals and signs with. By default in
              `ACCORD_KEY`, else in a file beside the SQLite database, made when first needed.
            allow_hosts: Hosts and networks that addresses of strangers (webhooks, keys of issuers)
              may lead to though they are private: for tests, and for networks of your own.
            sign_card: Sign the agent card with these keys, and publish the public ones at
              `/.well-known/jwks.json`.
            egress_proxy: An HTTP proxy that calls to addresses of strangers go through: webhooks,
              keys of issuers, links to files, places a card names. It decides by itself what is
              reached. Without it they are called directly, if they are public.
            trusted_proxies: Addresses and networks of proxies in front of this server, whose
              X-Forwarded-For or Forwarded says where a request comes from. Without them the
              address of a request is that of the connection.
            no_auth: Let anyone who can reach the address use an agent without `auth`.
            cors_origins: Whose web pages may use the agent, as `https://app.example.com`.
            workers: How many processes serve the port. More than one need a store they can share:
              `postgresql://...`. One that dies is started again.
            console: Serve the web console at `/console` too. The link that opens it is printed, or
              given to this function; with an `on_start` of your own it has to be a function. Only
              on loopback or with `auth`.
            parts: What is opened and closed with the server, beside the agent.
            push: Whether push notifications are sent, or how.
            telemetry: Trace by OpenTelemetry (`accord[otel]`), in the whole process. By default if
              the environment says where traces go: `OTEL_EXPORTER_OTLP_ENDPOINT`.
            metrics: Serve metrics for Prometheus on this port (`accord[metrics]`), to this machine
              alone; or on `"HOST:PORT"`.

        Raises:
            ValueError: The address can be reached from other machines and callers are not
              authenticated; or a setting is wrong.
            RuntimeError: An event loop is running here: `await agent.serve(...)` instead.
        """
        from .server.process import (  # what an app that is served elsewhere does not need
            WorkerProcess,
            bind,
            is_in_loop,
            run_workers,
            serve,
            set_up_log,
            url_of,
        )

        if is_in_loop():
            raise RuntimeError(
                "agent.run() starts an event loop of its own, and one is running here; write "
                "await agent.serve(...), with the same keywords"
            )
        self._check_reach(host, url, trusted_proxies, beside, grace_s=grace_s, no_auth=no_auth)
        if not 1 <= workers <= MAX_WORKERS:
            raise ValueError(f"workers is {workers}; give a number from 1 to {MAX_WORKERS}")
        set_up_log(log_level, log_format)

        def make_app() -> "App":
            return self.app(
                beside=beside,
                store=(SHARED_STORE if beside else self.default_store) if store is None else store,
                url=url,
                rpc=rpc,
                rest=rest,
                limits=limits,
                versions=versions,
                grpc_port=grpc_port,
                grpc_host=grpc_host or host,
                tls=tls,
                retention=retention,
                key_file=key_file,
                allow_hosts=allow_hosts,
                sign_card=sign_card,
                egress_proxy=egress_proxy,
                trusted_proxies=trusted_proxies,
                cors_origins=cors_origins,
                push=push,
                telemetry=telemetry,
                metrics=metrics,
            )

        def serve_app(app: "App", worker: WorkerProcess | None = None) -> None:
            for part in parts:
                app.add_part(part)
            if worker is None:
                started: Callable[[str], None] = self._starting(app, host, url, on_start, console)
            else:
                if self._has_console(app, host, url, on_start, console):
                    _attach_console(app, is_shared=True)

                def started(address: str) -> None:
                    app.reached_at(url or address)

            serve(
                app,
                host=host,
                port=port,
                limits=app.limits,
                on_start=started,
                tls=app.server_tls,
                grace_s=grace_s,
                sockets=sockets,
                worker=worker,
            )

        def work(worker: WorkerProcess) -> None:
            app = make_app()
            if app.metrics is not None:
                app.metrics.move_port(worker.number)  # each process has its own
            if grpc_sockets:
                app.share_grpc(grpc_sockets)
            serve_app(app, worker)

        sockets: list[socket.socket] = []
        grpc_sockets: list[socket.socket] = []
        app = make_app()  # here too with several workers: what is wrong is said once
        if workers == 1:
            serve_app(app)
            return
        app.check_shared(workers)
        sockets = bind(host, port)
        if grpc_port is not None:
            grpc_sockets = bind(grpc_host or host, grpc_port)

        def started() -> None:
            address = url_of(sockets, is_secure=tls is not None)
            self._tell(address, url, on_start, len(app.agents))
            if self._has_console(app, host, url, on_start, console):
                _show_link(_new_link(app, url or address), console)

        try:
            code = run_workers(workers, work, grace_s=grace_s, on_start=started)
        finally:
            for one in (*sockets, *grpc_sockets):
                one.close()
        if code:
            raise SystemExit(code)

    async def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        store: "str | Store | None" = None,
        url: str | None = None,
        on_start: Callable[[str], None] | None = None,
        grace_s: float = 20.0,
        no_auth: bool = False,
        console: "bool | Callable[[str], None]" = True,
        **options: "Unpack[AppOptions]",
    ) -> None:
        """Serve the agent in the event loop that runs, beside what else runs there: `await
        agent.serve(port=9000)`.

        It ends when it is cancelled. On SIGTERM, if nobody else handles that, running work gets
        `grace_s` to finish, and it returns. The keywords are those of `run` and `app`; the log is
        the program's own.

        Raises:
            ValueError: As `run` does.
            RuntimeError: The port can't be had, or the store can't be opened.
        """
        from .server.process import serve_here

        beside = options.get("beside", ())
        proxies = options.get("trusted_proxies", ())
        self._check_reach(host, url, proxies, beside, grace_s=grace_s, no_auth=no_auth)
        options.setdefault("grpc_host", host)
        if store is None:
            store = SHARED_STORE if options.get("beside") else self.default_store
        app = self.app(store=store, url=url, **options)
        await serve_here(
            app,
            host=host,
            port=port,
            limits=app.limits,
            on_start=self._starting(app, host, url, on_start, console),
            tls=app.server_tls,
            grace_s=grace_s,
        )

    def _check_reach(
        self,
        host: str,
        url: str | None,
        proxies: Sequence[str],
        beside: "Sequence[Agent]",
        *,
        grace_s: float,
        no_auth: bool,
    ) -> None:
        """Raise ValueError if anyone could call who was not meant to."""
        from .server.process import is_local

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

    def _starting(
        self,
        app: "App",
        host: str,
        url: str | None,
        on_start: Callable[[str], None] | None,
        console: "bool | Callable[[str], None]",
    ) -> Callable[[str], None]:
        """What is to be done once the app is served: say where, and where its console is."""
        page = None
        if self._has_console(app, host, url, on_start, console):
            page = _attach_console(app)

        def started(address: str) -> None:
            app.reached_at(url or address)
            self._tell(address, url, on_start, len(app.agents))
            if page is not None:
                _show_link(page.link(url or address), console)

        return started

    def _has_console(
        self,
        app: "App",
        host: str,
        url: str | None,
        on_start: Callable[[str], None] | None,
        console: "bool | Callable[[str], None]",
    ) -> bool:
        from .server.process import is_local

        # A caller with `on_start` prints the address itself, and gets the link by `console`.
        tells = console is True and on_start is None
        if not tells and not callable(console):
            return False
        served = [one.agent for one in app.agents.values()] or [self]
        if not is_local(host, url, app.trusted_proxies) and any(
            agent.auth is None for agent in served
        ):
            return False
        from .console import is_built  # the page, which most apps have no need of

        return is_built()

    def _tell(
        self, address: str, url: str | None, on_start: Callable[[str], None] | None, agents: int
    ) -> None:
        if on_start is not None:
            on_start(address)
        else:
            what = f"{agents} agents are" if agents else f"{self.name} is"
            print(f"{what} served at {url or address}   (Ctrl-C stops it)", flush=True)


def _attach_console(app: "App", *, is_shared: bool = False) -> "Console":
    """Serve the console too. Workers that share a port have no Live: it would show the requests of
    one worker only.
    """
    from .console import Console  # the page, which most apps have no need of

    page = Console(app, has_exchanges=not is_shared, makes_link=not is_shared)
    page.attach(app)
    return page


def _new_link(app: "App", address: str) -> str:
    """Make a link for an app that workers serve: they find it in the store."""
    import asyncio

    from .console import BrowserSessions, link_of

    return link_of(address, asyncio.run(BrowserSessions(app.engine.tasks.store.logins).new_link()))


def _show_link(link: str, console: "bool | Callable[[str], None]") -> None:
    """Pass the link of the console to the callback, or print it."""
    if callable(console):
        console(link)
    else:
        print(f"  console  {link}   (opens once)", flush=True)
