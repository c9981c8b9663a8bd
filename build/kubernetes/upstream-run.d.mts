import type { Result } from './upstream-tests.mjs';

export declare function runUpstream(
  wanted: { readonly set: string; readonly families: string; readonly labFolder: string },
  asked: { readonly short?: boolean; readonly focus?: string; readonly procs?: string },
): Promise<{ readonly file: string; readonly results: readonly Result[]; readonly failure: Error | undefined }>;
export declare function reportFile(set: string, families: string, asked: { readonly short?: boolean }): string;
