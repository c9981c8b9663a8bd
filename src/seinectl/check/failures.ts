import { withoutCode } from '../../base/errors/seine-error.ts';

/** Formats an error for operators. */
export function messageOf(thrown: unknown): string {
  return withoutCode(thrown instanceof Error ? thrown.message : String(thrown));
}

export function isNoSuchFile(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && (thrown.code === 'ENOENT' || thrown.code === 'ENOTDIR');
}
