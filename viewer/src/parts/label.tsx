import { labelParts } from '../text/labels';

/** The name of a group, a file or a frame. In little room, its path is cut first, at the beginning. */
export function Label({ text }: { text: string }) {
  const { before, path, name } = labelParts(text);
  if (path === '') return <span class="label">{text}</span>;
  return (
    <span class="label">
      {before && <span class="label-before">{before}</span>}
      <span class="label-path">
        <bdi dir="ltr">{path}</bdi>
      </span>
      <span class="label-name">{name}</span>
    </span>
  );
}
