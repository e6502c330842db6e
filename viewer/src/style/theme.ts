// The theme, light or dark, and the style sheet's colors for canvases.

import { computed, effect, signal } from '@preact/signals';

export const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

const KEY = 'vramscope.theme';

/** Returns the stored choice. A page opened from a file, or in private browsing, may have no storage. */
function stored(): Theme {
  try {
    return THEMES.find((t) => t === localStorage.getItem(KEY)) ?? 'system';
  } catch {
    return 'system';
  }
}

export const theme = signal<Theme>(stored());

const preference = window.matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(preference.matches);
preference.addEventListener('change', (e) => (systemDark.value = e.matches));

export const dark = computed(() => (theme.value === 'system' ? systemDark.value : theme.value === 'dark'));

/** Applies and stores the choice whenever it changes. */
export function followTheme(): void {
  effect(() => {
    const chosen = theme.value;
    if (chosen === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // Without storage the choice is lost when the page closes.
    }
  });
}

const TOKENS = [
  'ground',
  'raised',
  'sunken',
  'free',
  'line',
  'text',
  'quiet',
  'accent',
  'on-accent',
  'bad',
  'warn',
  'good',
  'requested',
  'allocated',
  'active',
  'reserved',
] as const;
export type Token = (typeof TOKENS)[number];

/** The theme's colors for canvases, by the names of their CSS variables. */
export const inks = computed<Record<Token, string>>(() => {
  const scheme = dark.value ? 'dark' : 'light';
  const probe = document.createElement('span');
  probe.style.colorScheme = scheme;
  probe.hidden = true;
  document.documentElement.append(probe);
  const read = (token: Token) => {
    probe.style.color = `var(--${token})`;
    return getComputedStyle(probe).color;
  };
  const found = Object.fromEntries(TOKENS.map((t) => [t, read(t)])) as Record<Token, string>;
  probe.remove();
  return found;
});
