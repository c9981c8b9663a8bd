import type { FieldErrors } from '../errors/field-errors.ts';
import type { ApiObject } from '../object/api-object.ts';
import type { NameRule } from './resource.ts';

interface Format {
  readonly pattern: RegExp;
  readonly maxLength: number;
  readonly message: string;
}

const subdomain: Format = {
  pattern: /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/,
  maxLength: 253,
  message:
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
};

const label: Format = {
  pattern: /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/,
  maxLength: 63,
  message:
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
};

const label1035: Format = {
  pattern: /^[a-z]([-a-z0-9]*[a-z0-9])?$/,
  maxLength: 63,
  message:
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
};

const qualifiedName: Format = {
  pattern: /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/,
  maxLength: 63,
  message:
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
};

const labelValue: Format = {
  pattern: /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/,
  maxLength: 63,
  message:
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
};

const nameFormats: Readonly<Record<NameRule, Format>> = {
  subdomain,
  label,
  service: label1035,
  segment: { pattern: /^(?!\.{1,2}$)[^/%]+$/, maxLength: 253, message: "may not be '.' or '..' or contain '/' or '%'" },
};

function check(format: Format, path: string, value: string, errors: FieldErrors): void {
  if (value.length > format.maxLength) errors.invalid(path, value, `must be no more than ${format.maxLength} characters`);
  else if (!format.pattern.test(value)) errors.invalid(path, value, format.message);
}

export function checkSubdomain(path: string, value: string, errors: FieldErrors): void {
  check(subdomain, path, value, errors);
}

export function checkLabelName(path: string, value: string, errors: FieldErrors): void {
  check(label, path, value, errors);
}

/** A name for ports and the like (IANA service name): 1–15 of a-z, 0-9 and -, with a letter, no -- and no - at the ends. */
export function checkPortName(path: string, value: string, errors: FieldErrors): void {
  if (value.length > 15) errors.invalid(path, value, 'must be no more than 15 characters');
  if (!/^[-a-z0-9]+$/.test(value)) errors.invalid(path, value, 'must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)');
  if (!/[a-z]/.test(value)) errors.invalid(path, value, 'must contain at least one letter (a-z)');
  if (value.includes('--')) errors.invalid(path, value, 'must not contain consecutive hyphens');
  if (/^-|-$/.test(value)) errors.invalid(path, value, 'must not begin or end with a hyphen');
}

function isPrefixedName(key: string): boolean {
  const parts = key.split('/');
  const name = parts.pop() ?? '';
  return (
    parts.length <= 1 &&
    qualifiedName.pattern.test(name) &&
    name.length <= 63 &&
    (parts[0] === undefined || subdomain.pattern.test(parts[0]))
  );
}

function checkKeys(path: string, map: Readonly<Record<string, string>>, errors: FieldErrors): void {
  for (const key of Object.keys(map)) if (!isPrefixedName(key)) errors.invalid(path, key, qualifiedName.message);
}

export function checkLabels(path: string, labels: Readonly<Record<string, string>>, errors: FieldErrors): void {
  checkKeys(path, labels, errors);
  for (const value of Object.values(labels)) check(labelValue, path, value, errors);
}

const annotationBytes = 256 * 1024;

/** Checks the fields of metadata that every kind has. */
export function checkMetadata({ metadata }: ApiObject, rule: NameRule, errors: FieldErrors): void {
  const { name, labels = {}, annotations = {}, finalizers = [], ownerReferences = [] } = metadata;
  if (name === '') errors.required('metadata.name', 'name or generateName is required');
  else check(nameFormats[rule], 'metadata.name', name, errors);
  checkLabels('metadata.labels', labels, errors);
  checkKeys('metadata.annotations', annotations, errors);
  const bytes = Object.entries(annotations).reduce((sum, [key, value]) => sum + key.length + value.length, 0);
  if (bytes > annotationBytes) errors.tooLong('metadata.annotations', annotationBytes);
  for (const finalizer of finalizers)
    if (!isPrefixedName(finalizer)) errors.invalid('metadata.finalizers', finalizer, qualifiedName.message);
  ownerReferences.forEach((owner, index) => {
    for (const part of ['apiVersion', 'kind', 'name', 'uid'] as const) {
      if (!owner[part]) errors.invalid(`metadata.ownerReferences[${index}].${part}`, owner[part] ?? '', 'must not be empty');
    }
  });
}
