import type { MailLocale } from '../mail/template.ts'

/** The texts of a page in each language; a missing language does not compile. The page fills in `{name}`. */
export type PageText<Texts extends Record<string, string>> = Record<MailLocale, Texts>
