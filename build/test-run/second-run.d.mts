export declare function forSecondRun(files: readonly { readonly name: string; readonly project: string; readonly ok: boolean }[]): string[];
