/** One page that fails leaves the others alone: what went wrong is said, and what to do. */

import { Component, type ComponentChildren } from "preact";
import { t } from "../i18n";

/** A piece of the page that the server no longer has: it was upgraded while the page was open. */
const isMissingPiece = (error: unknown): boolean =>
  error instanceof Error && /dynamically imported module|module script|Importing a module|preload/i.test(error.message);

interface State {
  error: unknown;
}

export class Boundary extends Component<{ children: ComponentChildren }, State> {
  state: State = { error: null };

  static getDerivedStateFromError(error: unknown): State {
    return { error };
  }

  render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    const isMissing = isMissingPiece(error);
    return (
      <div class="card bad" role="alert" data-broken>
        <h1>{isMissing ? t("broken.upgraded") : t("broken.title")}</h1>
        <p>{isMissing ? t("broken.upgraded.text") : t("broken.text")}</p>
        <div class="row">
          <button type="button" class="primary" onClick={() => location.reload()}>
            {t("broken.reload")}
          </button>
          {!isMissing && (
            <button type="button" onClick={() => this.setState({ error: null })}>
              {t("common.retry")}
            </button>
          )}
        </div>
        <pre>{error instanceof Error ? error.message : String(error)}</pre>
      </div>
    );
  }
}
