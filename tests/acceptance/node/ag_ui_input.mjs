// Whether the schema of `@ag-ui/core` accepts a `RunAgentInput`, as an agent of 0.0.59 and 1.0.0.
import { createRequire } from 'node:module';
import { answer } from './served.mjs';

const reader = (client, path) => {
  const find = createRequire(createRequire(import.meta.url).resolve(client));
  return async ({ body }) => {
    const { RunAgentInputSchema } = await import(find.resolve(path));
    const { success, error } = RunAgentInputSchema.safeParse(body);
    return success ? {} : { error: JSON.stringify(error.issues).slice(0, 500) };
  };
};

await answer({
  0: reader('ag-ui-client-0', '@ag-ui/core'),
  1: reader('ag-ui-client-1', '@ag-ui/core/schemas'),
});
