/* SPDX-License-Identifier: MIT */
/* embed.S - the agents this program carries; embed.c gives them out. */
	.section .rodata
	.globl embed_agent_start, embed_agent_end
	.balign 16
embed_agent_start:
	.incbin EMBED_AGENT
embed_agent_end:
	.globl embed_agent_arm64_start, embed_agent_arm64_end
	.balign 16
embed_agent_arm64_start:
#ifdef EMBED_AGENT_ARM64
	.incbin EMBED_AGENT_ARM64
#endif
embed_agent_arm64_end:
	.byte 0
	.section .note.GNU-stack, "", %progbits
