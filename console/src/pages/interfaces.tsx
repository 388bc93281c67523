/** Where an agent is called: each address once, with what is spoken there. */

import type { Card } from "../api/types";
import { visible } from "../ui/text";

export function Interfaces({ of }: { of: Card["supportedInterfaces"] }) {
  const urls = [...new Set(of.map((one) => one.url))];
  return (
    <ul class="plain card ranked">
      {urls.map((url) => (
        <li key={url}>
          <span class="mono across">{visible(url)}</span>
          <span class="chips across">
            {of
              .filter((one) => one.url === url)
              .map((one) => (
                <span key={one.protocolBinding + one.protocolVersion} class="chip">
                  {visible(`${one.protocolBinding} ${one.protocolVersion}`)}
                </span>
              ))}
          </span>
        </li>
      ))}
    </ul>
  );
}
