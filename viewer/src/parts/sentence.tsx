/** A sentence of the report; backticks enclose names and settings. */
export function Sentence({ text }: { text: string }) {
  return <>{text.split('`').map((part, i) => (i % 2 === 0 ? part : <code key={i}>{part}</code>))}</>;
}
