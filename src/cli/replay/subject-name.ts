/** What requests are told apart by. */
export type Subject = 'ip' | 'path' | 'method' | 'user' | 'agent'

export const SUBJECTS: readonly Subject[] = ['ip', 'path', 'method', 'user', 'agent']
