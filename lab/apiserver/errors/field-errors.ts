import type { FieldError } from './api-error.ts';

/** Collects the invalid fields of one object, in the real server's wording. */
export class FieldErrors {
  readonly list: FieldError[] = [];

  required(field: string, detail = ''): void {
    this.#add('FieldValueRequired', field, detail === '' ? 'Required value' : `Required value: ${detail}`);
  }

  invalid(field: string, value: unknown, detail: string): void {
    this.#add('FieldValueInvalid', field, `Invalid value: ${shown(value)}: ${detail}`);
  }

  notSupported(field: string, value: unknown, supported: readonly string[]): void {
    this.#add(
      'FieldValueNotSupported',
      field,
      `Unsupported value: ${shown(value)}: supported values: ${supported.map((one) => `"${one}"`).join(', ')}`,
    );
  }

  forbidden(field: string, detail: string): void {
    this.#add('FieldValueForbidden', field, `Forbidden: ${detail}`);
  }

  duplicate(field: string, value: unknown): void {
    this.#add('FieldValueDuplicate', field, `Duplicate value: ${shown(value)}`);
  }

  tooLong(field: string, limit: number): void {
    this.#add('FieldValueTooLong', field, `Too long: may not be more than ${limit} bytes`);
  }

  tooMany(field: string, count: number, limit: number): void {
    this.#add('FieldValueTooMany', field, `Too many: ${count}: must have at most ${limit} items`);
  }

  immutable(field: string, value: unknown): void {
    this.invalid(field, value, 'field is immutable');
  }

  #add(reason: FieldError['reason'], field: string, message: string): void {
    this.list.push({ reason, message, field });
  }
}

/** Formats values as Go prints them: strings quoted, lists of strings as `[]string{"a"}`. */
function shown(value: unknown): string {
  if (Array.isArray(value) && value.every((one) => typeof one === 'string'))
    return `[]string{${value.map((one) => JSON.stringify(one)).join(', ')}}`;
  return value === undefined ? '""' : JSON.stringify(value);
}
