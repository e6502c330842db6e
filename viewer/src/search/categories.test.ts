import { expect, test } from 'vitest';
import { chosenCategories, toggleHidden, toggleOnly } from './categories';

test('one category is isolated, then all are shown', () => {
  expect(toggleOnly('', 'gradient')).toBe('category:gradient');
  expect(toggleOnly('category:gradient', 'gradient')).toBe('');
  expect(toggleOnly('category:gradient', 'kv_cache')).toBe('category:kv_cache');
  expect(toggleOnly('-category:gradient -category:unknown', 'gradient')).toBe('category:gradient');
});

test('several are hidden, and shown again', () => {
  expect(toggleHidden('', 'gradient')).toBe('-category:gradient');
  expect(toggleHidden('-category:gradient', 'unknown')).toBe('-category:gradient -category:unknown');
  expect(toggleHidden('-category:gradient -category:unknown', 'gradient')).toBe('-category:unknown');
  expect(toggleHidden('category:gradient', 'unknown')).toBe('-category:unknown');
});

test('other terms stay, including quoted ones', () => {
  const others = '"two words" >= 10 MiB file:"my model.py" category:grad -stream:3 attention';
  expect(toggleOnly(others, 'gradient')).toBe(`${others} category:gradient`);
  expect(toggleOnly(`${others} category:gradient`, 'gradient')).toBe(others);
  expect(toggleHidden(`${others} -category:unknown`, 'unknown')).toBe(others);
});

test("the choice of a query's category terms", () => {
  expect(chosenCategories('a category:"gradient" b')).toEqual({ only: 'gradient', hidden: [] });
  expect(chosenCategories('-CATEGORY:kv_cache -category:unknown')).toEqual({ only: null, hidden: ['kv_cache', 'unknown'] });
  expect(chosenCategories('category=gradient !category="kv cache" category!=unknown NOT category:buffer')).toEqual({
    only: 'gradient',
    hidden: ['kv_cache', 'unknown', 'buffer'],
  });
  expect(chosenCategories('category:grad gradient')).toEqual({ only: null, hidden: [] });
});

test('ORs and parentheses are not category terms', () => {
  expect(chosenCategories('category:gradient OR category:unknown')).toEqual({ only: null, hidden: [] });
  expect(chosenCategories('(category:gradient OR a) -(category:unknown)')).toEqual({ only: null, hidden: [] });
  expect(toggleOnly('a OR b', 'gradient')).toBe('(a OR b) category:gradient');
  expect(toggleOnly('(a OR b) category:gradient', 'gradient')).toBe('(a OR b)');
  expect(toggleHidden('NOT a -(b f())', 'unknown')).toBe('NOT a -(b f()) -category:unknown');
});
