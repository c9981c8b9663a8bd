export declare function mirror(release: string): string;
