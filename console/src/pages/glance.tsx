/** A task at a glance, beside a list: why it failed, what it asks, or what came out. */

import * as http from "../api/http";
import type { Summary } from "../api/types";
import { moment, span, t } from "../i18n";
import { ArtifactView, PartView } from "../render/parts";
import { Link, Skeleton, State, Trouble } from "../ui/elements";
import { usePolled } from "../ui/polled";
import { visible } from "../ui/text";
import { addressOf } from "./address";

export function Glance({ task, onClose }: { task: Summary; onClose: () => void }) {
  const at: http.Address = { id: task.id, tenant: task.tenant, caller: task.caller, agent: task.agent };
  const { value: found, error, load } = usePolled(() => http.task(at), 5000, [task.id]);
  return (
    <aside class="pane" aria-label={t("glance.title")}>
      <div class="head">
        <State word={task.state} />
        <span class="fill" />
        <Link to={`tasks/${encodeURIComponent(task.id)}`} query={addressOf(task)} class="button">
          {t("common.open")}
        </Link>
        <button type="button" onClick={onClose}>
          {t("common.close")}
        </button>
      </div>
      <h2>{visible(task.title || task.id)}</h2>
      <p class="soft small">
        {task.skill} · {moment(task.at)}
        {task.created ? ` · ${span(Math.max(0, task.at - task.created))}` : ""}
      </p>
      {task.why && <p class="bad">{visible(task.why)}</p>}
      {error !== null && <Trouble error={error} onRetry={load} />}
      {!found && error === null && <Skeleton />}
      {found?.task.status.message?.parts.map((part, i) => <PartView key={i} part={part} />)}
      {found?.task.artifacts?.map((artifact) => <ArtifactView key={artifact.artifactId} artifact={artifact} at={at} />)}
    </aside>
  );
}
