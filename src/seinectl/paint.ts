/** Meaning of a colour. */
export type Tone = 'good' | 'warning' | 'bad' | 'quiet' | 'strong';

/** Source: ECMA-48 SGR. */
const codes: Readonly<Record<Tone, number>> = { good: 32, warning: 33, bad: 31, quiet: 2, strong: 1 };

export type Paint = (tone: Tone, text: string) => string;

export const plain: Paint = (_, text) => text;
export const coloured: Paint = (tone, text) => `\u001b[${codes[tone]}m${text}\u001b[0m`;
