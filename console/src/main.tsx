import { render } from "preact";
import { App } from "./app";
import { start } from "./state";
import "./styles/tokens.css";
import "./styles/base.css";

void start();
render(<App />, document.getElementById("app")!);
