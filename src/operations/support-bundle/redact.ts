const taken = '[REDACTED]';

/** Secrets that must not leave the cluster, by their form. */
const shapes: readonly (readonly [RegExp, string])[] = [
  // RFC 7468, also as a JSON string has it.
  [/-----BEGIN ([A-Z ]*PRIVATE KEY)-----[\s\S]{0,20000}?-----END \1-----/g, `-----BEGIN $1-----${taken}-----END $1-----`],
  // RFC 7519: three parts in base64url, the first of which begins with `{"`.
  [/\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}/g, taken],
  [/\b(Bearer|Basic) +[\w.~+/-]{6,}=*/gi, `$1 ${taken}`],
  // RFC 3986 userinfo.
  [/(:\/\/)[^\s/@:"']{1,200}:[^\s/@"']{1,200}@/g, `$1${taken}@`],
];

/** Names of fields with secret values: in JSON, in YAML, and in maps of OVSDB. */
const secretNames =
  '[\\w./-]{0,80}(?:token|passw(?:or)?d|passphrase|secret|psk|api[_-]?key|private[_-]?key(?:[_-]?data)?|client-key-data|client-certificate-data|authorization|credentials?|last-applied-configuration)';
const fields: readonly (readonly [RegExp, string])[] = [
  [new RegExp(`("${secretNames}"\\s*:\\s*)"(?:[^"\\\\]|\\\\.)*"`, 'gi'), `$1"${taken}"`],
  [new RegExp(`(\\[\\s*"${secretNames}",\\s*)"(?:[^"\\\\]|\\\\.)*"`, 'gi'), `$1"${taken}"`],
  // YAML, in flow style and in block style.
  [new RegExp(`([{,][ \\t]*${secretNames}[ \\t]*:[ \\t]+)(?=[^\\s"{\\[])[^\\n,}]+`, 'gi'), `$1${taken}`],
  [new RegExp(`^([ \\t]*(?:- )?${secretNames}[ \\t]*[:=][ \\t]*)(?=[^\\s|>{\\[])[^\\n]+`, 'gim'), `$1${taken}`],
];

/**
 * Redacts secrets: private keys, tokens, passwords in URLs, and fields with names of secrets.
 *
 * It finds the usual forms and no more: collectors must not read files that hold secrets.
 */
export function redact(text: string): string {
  return [...shapes, ...fields].reduce((rest, [pattern, instead]) => rest.replace(pattern, instead), text);
}
