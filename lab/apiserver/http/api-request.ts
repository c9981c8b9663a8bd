/** One request, independent of the HTTP version. */
export interface ApiRequest {
  readonly method: string;
  /** Path without the query, not decoded. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly accept: string;
  readonly contentType: string;
  readonly userAgent: string;
  readonly user: User;
  /** @throws ApiError 413 if it exceeds the server's limit */
  body(): Promise<Uint8Array>;
}

export interface User {
  readonly name: string;
  readonly groups: readonly string[];
  /** Further attributes of the user, e.g. `authentication.kubernetes.io/node-name`. */
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

export type ApiResponse = WholeResponse | StreamedResponse;

export interface WholeResponse {
  readonly code: number;
  readonly contentType: string;
  readonly body: string | Uint8Array;
  readonly warnings?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
}

interface StreamedResponse {
  readonly contentType: string;
  /** Writes until done or until `signal` (the client disconnected, or the server closes). */
  stream(write: (text: string) => Promise<void>, signal: AbortSignal): Promise<void>;
}

export function jsonResponse(code: number, body: string, more: Pick<WholeResponse, 'warnings' | 'headers'> = {}): WholeResponse {
  return { code, contentType: 'application/json', body, ...more };
}

/**
 * Reports whether a query parameter is true, as Kubernetes reads it: present and not `0` or `false` in any case. Python's client sends
 * `True`.
 */
export function isTrue(text: string | null): boolean {
  return text !== null && text !== '0' && text.toLowerCase() !== 'false';
}
