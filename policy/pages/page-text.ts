import type { MailLocale } from '../mail/template.ts'

/** What a page says in each language; one that is missing does not compile. `{name}` is filled in by the page. */
export type PageText<Texts extends Record<string, string>> = Record<MailLocale, Texts>
