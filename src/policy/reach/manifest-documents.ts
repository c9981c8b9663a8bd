import { parseAllDocuments } from 'yaml';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { ManifestDocument } from './from-manifests.ts';

/** Aliases that one YAML document may expand: more is a document that grows without bound. */
const ALIASES_MAX = 1_000;

/** Parses the YAML or JSON documents of a manifest. @throws SeineError `INVALID_INPUT` for text that is not YAML, with the line */
export function documentsOf(place: string, text: string): readonly ManifestDocument[] {
  const json = jsonIn(text);
  if (json !== undefined) return [{ place, object: json }];
  const documents = [...parseAllDocuments(text, { uniqueKeys: true })];
  return documents.map((document, index) => {
    const where = documents.length > 1 ? `${place} document ${index + 1}` : place;
    const [error] = document.errors;
    if (error) throw new SeineError('INVALID_INPUT', `${where}: ${error.message.split('\n', 1)[0]}`);
    return { place: where, object: contentOf(where, document) };
  });
}

function contentOf(where: string, document: ReturnType<typeof parseAllDocuments>[number]): unknown {
  try {
    return document.toJS({ maxAliasCount: ALIASES_MAX }) as unknown;
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${where}: ${thrown instanceof Error ? thrown.message : String(thrown)}`, { cause: thrown });
  }
}

/** Value of a text that is JSON, which is read a hundred times faster than YAML. */
function jsonIn(text: string): unknown {
  if (!text.trimStart().startsWith('{')) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // a flow mapping of YAML, or an error, which the parser of YAML reports with its line
  }
}
