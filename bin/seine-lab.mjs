#!/usr/bin/env node
import { launch } from './launch.mjs';

await launch('seine-lab.mjs', 'src/lab/main.ts');
