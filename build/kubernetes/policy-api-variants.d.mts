export declare function manifestWithoutSctp(text: string): string;
export declare function helperWithoutSctp(text: string): string;
export declare function limitsLengthened(text: string): string;
