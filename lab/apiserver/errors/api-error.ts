import { defined } from '../object/json.ts';

/** One invalid field, worded as the real server words it. `field` is a path such as `spec.ports[0].port`. */
export interface FieldError {
  readonly reason:
    | 'FieldValueRequired'
    | 'FieldValueInvalid'
    | 'FieldValueNotSupported'
    | 'FieldValueForbidden'
    | 'FieldValueDuplicate'
    | 'FieldValueTooLong'
    | 'FieldValueTooMany'
    | 'FieldValueTypeInvalid'
    | 'FieldManagerConflict'
    | 'NamespaceTerminating'
    | 'ResourceVersionTooLarge'
    | 'UnexpectedServerResponse';
  readonly message: string;
  readonly field: string;
}

interface StatusDetails {
  readonly name?: string;
  readonly group?: string;
  readonly kind?: string;
  readonly uid?: string;
  readonly causes?: readonly FieldError[];
  readonly retryAfterSeconds?: number;
}

/** An error that the client receives as a `Status` object. Thrown by every handler of requests; caught by the HTTP server alone. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  /** HTTP status. */
  readonly code: number;
  /** `metav1.StatusReason`. */
  readonly reason: string;
  readonly details: StatusDetails;

  constructor(code: number, reason: string, message: string, details: StatusDetails = {}) {
    super(message);
    this.code = code;
    this.reason = reason;
    this.details = details;
  }
}

/** Object of an error: `services "web"`. */
interface Named {
  readonly group: string;
  readonly plural: string;
  readonly kind: string;
}

export function qualified({ group, plural }: Named): string {
  return group === '' ? plural : `${plural}.${group}`;
}

export function notFound(row: Named, name: string): ApiError {
  return new ApiError(404, 'NotFound', `${qualified(row)} "${name}" not found`, detailsOf(row, name));
}

export function alreadyExists(row: Named, name: string): ApiError {
  return new ApiError(409, 'AlreadyExists', `${qualified(row)} "${name}" already exists`, detailsOf(row, name));
}

export function conflict(row: Named, name: string, why: string): ApiError {
  return new ApiError(409, 'Conflict', `Operation cannot be fulfilled on ${qualified(row)} "${name}": ${why}`, detailsOf(row, name));
}

export const staleObject = 'the object has been modified; please apply your changes to the latest version and try again';

/** @param errors at least one */
export function invalid(row: Named, name: string, errors: readonly FieldError[]): ApiError {
  const lines = errors.map(({ field, message }) => `${field}: ${message}`);
  const text = lines.length === 1 ? lines[0] : `[${lines.join(', ')}]`;
  const kind = row.group === '' ? row.kind : `${row.kind}.${row.group}`;
  return new ApiError(
    422,
    'Invalid',
    `${kind} "${name}" is invalid: ${text}`,
    defined({ name, group: row.group || undefined, kind: row.kind, causes: errors }) as StatusDetails,
  );
}

export function badRequest(message: string): ApiError {
  return new ApiError(400, 'BadRequest', message);
}

export function forbidden(row: Named, name: string, why: string, causes?: readonly FieldError[]): ApiError {
  const details = { ...detailsOf(row, name), ...(causes === undefined ? {} : { causes }) };
  return new ApiError(403, 'Forbidden', `${qualified(row)}${name === '' ? '' : ` "${name}"`} is forbidden: ${why}`, details);
}

export function expired(message: string): ApiError {
  return new ApiError(410, 'Expired', message);
}

export function methodNotAllowed(row: Named, verb: string): ApiError {
  return new ApiError(405, 'MethodNotAllowed', `${verb} is not supported on resources of kind "${qualified(row)}"`, detailsOf(row, ''));
}

export function pathNotFound(): ApiError {
  return new ApiError(404, 'NotFound', 'the server could not find the requested resource');
}

/** The `Status` object of an error. */
export function statusOf(error: ApiError): object {
  const { causes, ...details } = error.details;
  const shown = { ...details, ...(causes === undefined ? {} : { causes }) };
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: error.message,
    reason: error.reason,
    ...(Object.keys(shown).length === 0 ? {} : { details: shown }),
    code: error.code,
  };
}

function detailsOf(row: Named, name: string): StatusDetails {
  return { ...(name === '' ? {} : { name }), ...(row.group === '' ? {} : { group: row.group }), kind: row.plural };
}
