/** Names that others gave, as one line that hides nothing and changes no direction but its own. */

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Return a name with what can't be seen in it made visible: an override of the direction is shown, not obeyed. */
export function visible(name: string): string {
  return name.replace(HIDDEN, (char) =>
    char === "\n" || char === "\t" ? " " : `⟨U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
  );
}
