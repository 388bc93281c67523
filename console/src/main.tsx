import { render } from "preact";
import { App } from "./app";
import { start } from "./state";
import "./styles/tokens.css";
import "./styles/base.css";

// The key of the link has been used: it is not to stay in the address.
if (new URLSearchParams(location.search).has("key")) history.replaceState(null, "", "/console/");
void start();
render(<App />, document.getElementById("app")!);
