export const languages = [
  'javascript', 'typescript', 'python', 'java', 'elixir', 'go', 'rust', 'ruby', 'php', 'dotnet', 'static',
] as const

export type Language = (typeof languages)[number]
