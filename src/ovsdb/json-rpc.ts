import { SeineError } from '../base/errors/seine-error.ts';
import { type Json, writeParsed } from './json.ts';

/**
 * Message from the peer. Ids are chosen by the requester: our requests carry numbers, the server may use any JSON.
 *
 * Source: RFC 7047 section 4, JSON-RPC 1.0. `ovsdb-server` leaves `result` out of an error reply, and `error` of a reply may be a string or
 * an object.
 */
export type Incoming =
  | { readonly kind: 'request'; readonly id: unknown; readonly method: string; readonly params: readonly unknown[] }
  | { readonly kind: 'notification'; readonly method: string; readonly params: readonly unknown[] }
  | { readonly kind: 'result'; readonly id: unknown; readonly result: unknown }
  | { readonly kind: 'error'; readonly id: unknown; readonly error: unknown };

/** @throws SeineError `PROTOCOL` if the value is not a JSON-RPC message. */
export function readMessage(value: unknown): Incoming {
  if (!isObject(value)) throw new SeineError('PROTOCOL', 'JSON-RPC: message is not an object');
  const { id = null, method, params, result, error = null } = value;
  if (typeof method === 'string') {
    if (!Array.isArray(params)) throw new SeineError('PROTOCOL', 'JSON-RPC: params is not an array', { context: { method } });
    return id === null ? { kind: 'notification', method, params } : { kind: 'request', id, method, params };
  }
  if (id === null) throw new SeineError('PROTOCOL', 'JSON-RPC: neither a method nor an id', { context: { error } });
  return error === null ? { kind: 'result', id, result } : { kind: 'error', id, error };
}

export function writeRequest(id: number, method: string, params: Json): string {
  return JSON.stringify({ method, params, id });
}

export function writeNotification(method: string, params: Json): string {
  return JSON.stringify({ method, params, id: null });
}

/** Writes a reply. `id` and `result` are as the peer sent them: an echo returns its parameters. */
export function writeReply(id: unknown, result: unknown): string {
  return writeParsed({ result, error: null, id });
}

export function writeError(id: unknown, error: string): string {
  return writeParsed({ result: null, error, id });
}

/** Error of the server: a tag that programs can compare, and optional details for humans. */
interface ServerError {
  readonly error: string;
  readonly details: string;
}

export function readServerError(error: unknown): ServerError {
  if (typeof error === 'string') return { error, details: '' };
  if (!isObject(error)) return { error: 'unreadable error', details: '' };
  const { error: tag, details } = error;
  return { error: typeof tag === 'string' ? tag : 'unreadable error', details: typeof details === 'string' ? details : '' };
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
