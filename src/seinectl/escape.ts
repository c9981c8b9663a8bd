/** Characters that a terminal interprets or that reverse text: C0, DEL, C1, line separators and bidirectional controls. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const unsafe = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const unsafeButLines = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** One line that a terminal only displays: names are chosen by owners of pods, and must not move the cursor. */
export function safeLine(text: string): string {
  return text.replace(unsafe, written);
}

/** Like {@link safeLine}, but lines and tabs stay. */
export function safeText(text: string): string {
  return text.replace(unsafeButLines, written);
}

function written(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
