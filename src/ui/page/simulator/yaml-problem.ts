import { parseAllDocuments } from 'yaml';

/** Longer texts are checked by the worker alone: the page must not wait for them. */
const CHARACTERS_MAX = 200_000;

/** Returns why a text is not YAML, with line and column; undefined if it is, or is too long to be checked here. */
export function yamlProblem(text: string): string | undefined {
  if (text.length > CHARACTERS_MAX) return undefined;
  for (const { errors } of parseAllDocuments(text, { uniqueKeys: true })) {
    const [error] = errors;
    if (error) return error.message.split('\n', 1)[0]?.replace(/:$/, '');
  }
  return undefined;
}
