import { expect, test } from 'vitest';
import { SvgPen, escapeXml } from './pen';

test('names from a recording are text in an SVG, whatever they contain', () => {
  const pen = new SvgPen();
  pen.text(1, 2, '<script>alert("1")</script>&\u0000', { color: '#000' });
  const svg = pen.document(10, 10);
  expect(svg).toContain('&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;\ufffd');
  expect(svg).not.toContain('<script');
  expect(escapeXml("it's\n<b>")).toBe('it&apos;s\n&lt;b&gt;');
});

test('hatching uses one pattern per color', () => {
  const pen = new SvgPen();
  pen.hatch(0, 0, 4, 4, 'rgb(1, 2, 3)');
  pen.hatch(4, 0, 4, 4, 'rgb(1, 2, 3)');
  expect(pen.document(8, 4).match(/<pattern/g)).toHaveLength(1);
});
