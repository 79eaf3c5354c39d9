/** Every code of the AI wire with its one HTTP status (contract 13.8); see `managementErrors`. It is sent in lower case. */
export const aiErrors = {
  STREAM_NOT_SUPPORTED: [400, 'Streaming is not supported. Leave "stream" out, or set it to false.'],
  INVALID_MESSAGES: [
    400,
    'messages must be 1 to 100 messages with the role system, user, assistant or tool, and text as their content.',
  ],
  INVALID_TOOLS: [400, 'tools must be at most 32 functions, each with a name of 1 to 64 letters, digits, _ and -.'],
  INVALID_TOOL_CHOICE: [400, 'tool_choice must be none, auto, required, or one of the functions in tools.'],
  INVALID_TEMPERATURE: [400, 'temperature must be a number from 0 to 2.'],
  INVALID_MAX_TOKENS: [400, 'max_tokens must be a whole number from 1.'],
  CONTEXT_LENGTH_EXCEEDED: [400, 'The messages and tools are longer than the context window of your plan.'],
  INVALID_REQUEST: [
    400,
    'The model refused the request. It may be too long for this model, or a tool message may answer no tool call.',
  ],
  INVALID_JSON_BODY: [400, 'The body is not a JSON object.'],
  ACCESS_DENIED: [401, 'The credential is missing, malformed, invalid or expired.'],
  MISSING_SCOPE: [403, 'The API key does not have the scope ai:chat.'],
  RESOURCE_NOT_ALLOWED: [403, 'A key that is limited to certain applications cannot use the AI gateway.'],
  UPGRADE_REQUIRED: [403, 'Your plan does not include the AI gateway.'],
  COUNTRY_BLOCKED: [403, 'This service is not available in your country.'],
  CAPTCHA_REQUIRED: [403, 'Solve the captcha first: sign in on the page of this platform.'],
  NOT_FOUND: [404, 'The route or model does not exist.'],
  PAYLOAD_TOO_LARGE: [413, 'The body is over 2 MB.'],
  RATE_LIMITED: [429, 'Too many requests. Wait for the time in Retry-After.'],
  CONCURRENT_LIMIT_REACHED: [429, 'Your plan allows no more requests at a time. Wait until one is answered.'],
  RATE_LIMIT_EXCEEDED: [429, 'The last request was too recent for your plan. Wait for the time in Retry-After.'],
  DAILY_SPEND_LIMIT_REACHED: [
    429,
    'This request does not fit into the daily tokens of the API key, which begin again at 00:00 UTC.',
  ],
  DAILY_LIMIT_REACHED: [
    429,
    'This request does not fit into the daily tokens of your plan, which begin again at 00:00 UTC.',
  ],
  INTERNAL_SERVER_ERROR: [500, 'An unexpected error occurred. Report the request id to find its cause.'],
  SERVER_OVERLOADED: [503, 'No model could answer in time. Try again in a moment.'],
  DAILY_CAPACITY_REACHED: [
    503,
    'This request does not fit into the daily tokens of the platform, which begin again at 00:00 UTC.',
  ],
} as const satisfies Record<string, readonly [status: number, message: string]>
