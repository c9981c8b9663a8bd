import type { FieldErrors } from './field-errors.ts';
import type { JsonObject } from './json.ts';
import type { ObjectSchema } from './schema.ts';

export function checkCustomRules(_object: JsonObject, _schema: ObjectSchema, _errors: FieldErrors): void {}
