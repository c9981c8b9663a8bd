/** One request, freed of HTTP's version. */
export interface ApiRequest {
  readonly method: string;
  /** Path without the query, decoded nowhere yet. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly accept: string;
  readonly contentType: string;
  readonly userAgent: string;
  readonly user: User;
  /** @throws ApiError 413 if it is longer than the server takes */
  body(): Promise<Uint8Array>;
}

export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  /** What else is known of who asks, e.g. `authentication.kubernetes.io/node-name`. */
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

export type Answer = WholeAnswer | StreamAnswer;

export interface WholeAnswer {
  readonly code: number;
  readonly contentType: string;
  readonly body: string | Uint8Array;
  readonly warnings?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
}

export interface StreamAnswer {
  readonly contentType: string;
  /** Writes until done or until `signal` (the client has gone, or the server closes). */
  stream(write: (text: string) => Promise<void>, signal: AbortSignal): Promise<void>;
}

export function jsonAnswer(code: number, body: string, more: Pick<WholeAnswer, 'warnings' | 'headers'> = {}): WholeAnswer {
  return { code, contentType: 'application/json', body, ...more };
}

/** Which objects a path names. */
export interface ResourcePath {
  readonly group: string;
  readonly version: string;
  readonly namespace: string | undefined;
  readonly plural: string;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

/** @returns undefined for a path that names no resource */
export function parseResourcePath(path: string): ResourcePath | undefined {
  const parts = decodedParts(path);
  if (parts === undefined) return undefined;
  const [root, ...rest] = parts;
  const group = root === 'apis' ? (rest.shift() ?? '') : '';
  if (root !== 'api' && root !== 'apis') return undefined;
  const [version, ...names] = rest;
  if (version === undefined || names.length === 0) return undefined;
  const inNamespace = names[0] === 'namespaces' && names.length > 2 && !(names.length === 3 && namespaceSubresources.has(names[2] ?? ''));
  const [plural = '', name, subresource, ...more] = inNamespace ? names.slice(2) : names;
  if (more.length > 0) return undefined;
  return { group, version, namespace: inNamespace ? names[1] : undefined, plural, name, subresource };
}

const namespaceSubresources: ReadonlySet<string> = new Set(['status', 'finalize']);

/** Path segments; none may be empty. */
function decodedParts(path: string): string[] | undefined {
  const parts = path.replace(/^\/+|\/+$/g, '').split('/');
  try {
    const decoded = parts.map(decodeURIComponent);
    return decoded.includes('') ? undefined : decoded;
  } catch {
    // An escape that cannot be decoded names nothing.
    return undefined;
  }
}
