export declare const root: string;
export declare const cache: string;
export declare const dist: string;
export declare const pinnedNodeBin: string;
export declare function toolPath(): string;
