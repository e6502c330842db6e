import { expect, test } from 'vitest';
import { unpackedOf } from './lzma';

/** Texts with near and distant repetitions. */
const TEXT = Array.from({ length: 400 }, (_, i) => `${(i * i) % 97} ${'abc'[i % 3]!.repeat(i % 11)} ${Math.floor(i / 7)};`).join(
  '',
);
/** The output of `xz --format=lzma --lzma1=preset=9e,lc=4,lp=0,pb=0,nice=273` for them. */
const PACKED = [
  'BAAAAAT//////////wAYCG7hBNY+XQBGhtj32fjTHdtwiH88L38CS1gCJmVEELl9KZj0BGUO60VwGaurhWQ6b2wa+l3E40rWZO7urYxmHBbrIXaEy9L0',
  'te+HP6LeESMoLGT98vxd7VkLW30pwWCcvqIWJjHdubPns8v5U03pYTcfhK9yVhlbN7cFN4+EZ+D6eVxHeZL9mghgTnASfzQxABEzA6Czl085jRG8m8oj',
  'UKNAqZX34fa0hk24AkvlQauD58BnXRiJdrcGkjjaq/vpzQ1H6vEdk72z7Vr9xM/+XEjugU/LbRilzXGRWW7wfF70nDcf3ilUlCTw2xValbNX0OJbXHyU',
  '44IRxGq7b0a0kTM8U9Mz5F0sF3/LMdZf7nILqx7oEk+OhFBkPJZApodx3U5RGGtmSjv8NqJvb36DZS+TBxAybWGImOrZGFxPQR4nqSX5R6CX4VzvgPnQ',
  '7R++glzeyVdExAhvDud5dt4NmKHEtf1gh29achzKP1rBraFyy/nRwMTxsNg6gk5ef06trQBV6yqUxVa+NCAYEe/HlG3RA89+p5IBSZx8LBJTqH4MICYq',
  '4NJs8WHLRakV30SNariNZaOkQWOyivm4LUHMloH/mqn9WzqN51oAEBwohC74qKStB3+BjXMpNJ7t6WKoxhBxwke404yTjbzhh3THrLBNxqom3pxw6onE',
  'dI9G5SHHgizUpFeZw/OM1PHVwkGvPDudoXv9OFDDRkkxlGQ06R0FfwVFEDwiGH6t00yMd3JhhzvO43Pyyz9jJgPdf1OTkXnYlgXykqFSQDGzKjklZj4R',
  'Fjda9QPWpJSmJq43uex9lvcFDCQMQCi2JjRmK0nC/sH/vYHXJsggSHh3SO63k4JmvRo7BAkQAK/3XoU802JZvxaPrBxyqnRdkYM5kNRBiQtFP/oEyKQg',
  'LZ0/wghExHkAolA5OXuoLc1H7gVQ3wNGFaSkQ0BSZEunZKwNFhxI2IdPyRFfUzN8B9GqexucmEz6D6cxFvUFLqh9Z4wooKv+ZG6TXx6A7Qh0T+OI7pDm',
  'sjpdUMWEsnxyCZ7Eahal+ihugakIbgDNDOVLbW1vDPZPmWQWe2kp5Zh3kVPTfFdrw6spnE7JMIwrDnRTrhpJ+7xdVBrpI9QPsEJp3zygFpIEF6FxPNl7',
  '4vG0tuS4usG8Vy0zP7MqA/aTlakvh+BiaxSm5tQptsdMNULEglrQDC+tDA0SNc0I/vO057YgWDp37XQpezYYDZvOjiz9xyk3dISQihQ+CIbFK1qfYXCN',
  'sc7hKhFYPZUkm5pHy/3JmUUccOHA8yhV6pDI8rrp3xTVb6+TA3gmiJJ5rI0R+Qno2KKgzDcQWpeolO02bIyPf6eD3Ac54q13oGXpBYvwEEM1FtpzFSXU',
  'EVsd/bYnV7Som/9W8R/YrN9Dgvk5qZ4iLL5j5PA/CVyDY9N2K2rPPUeJxzNIUJHtoZOBDHxOIGdkGxqEjFLTmTqaWJ7BhKTFaOr+Bvbk/1qmrEAOQg3Y',
  'tXMG6IB7ohX+Tap9HB1woTVkth4aeZE4OUMT2AE4MGCyzmNcyFYqKFVt27XY4VGkBN8dB+crFVv6AQlFCMKFfTM8686RWmTCwc9swQ6BYjFvUgTZZZ44',
  'VY+okFnG+OVMMVuABuyocSsil69JbahNHMIG0qWIoMl/ph8gTfte5IIYPeKi8DXbrk+bnyYJZ1WrkDorEyQQQwH+9GlPiR7SfiRtlKksyWmPk0yk+j9L',
  '/+kJri4=',
].join('');

const packed = Uint8Array.from(atob(PACKED), (character) => character.charCodeAt(0));

test('data packed by xz is restored', () => {
  expect(new TextDecoder().decode(unpackedOf(packed))).toBe(TEXT);
});

test('truncated data is an error, and changed data terminates', () => {
  for (let length = 1; length < packed.length - 5; length += 1) {
    expect(() => unpackedOf(packed.subarray(0, length)), `${length} bytes`).toThrow(/^the packed data/);
  }
  expect(() => unpackedOf(Uint8Array.of(0x5d))).toThrow('other properties');
  for (let at = 1; at < packed.length; at += 1) {
    const changed = packed.map((byte, i) => (i === at ? byte ^ 0x10 : byte));
    try {
      unpackedOf(changed);
    } catch (e) {
      expect(String(e)).toContain('the packed data');
    }
  }
});
